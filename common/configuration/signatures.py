"""What a configuration says of signatures, as values. ConfigError names the key to mend."""

from __future__ import annotations

from common.configuration.tables import ManagerConfig, SharedConfig, WorkerConfig
from common.errors import ConfigError, Problem
from common.protocol.signatures import Seal, SigningMode, Trust
from common.signing.keys import KeyFileError, PublicKeys, Signer

_KEYS = "name files with public keys (PEM, Ed25519), or directories of *.pub files; `etcron signing keygen` makes them"


def trust_of(config: SharedConfig) -> Trust | None:
    """Whose signatures a worker believes; None: it looks at none."""
    if not isinstance(config, WorkerConfig) or config.signing is SigningMode.OFF:
        return None
    return Trust(cluster=config.signed_for, keys=_public_keys(config))


def seal_of(config: SharedConfig) -> Seal | None:
    """What a manager signs with, and whose signatures it believes beside its own; None: it signs nothing."""
    if not isinstance(config, ManagerConfig) or config.signing_key_file is None:
        return None
    try:
        signer = Signer.load(config.signing_key_file)
    except (KeyFileError, OSError) as error:
        remedy = "make one with `etcron signing keygen FILE`, as the manager's user"
        raise ConfigError([Problem(field="signingKeyFile", message=str(error), remedy=remedy)]) from error
    keys = _public_keys(config).with_own(signer)
    return Seal(signer=signer, trust=Trust(cluster=config.signed_for, keys=keys))


def _public_keys(config: SharedConfig) -> PublicKeys:
    try:
        return PublicKeys.load(config.signing_keys)
    except (KeyFileError, OSError) as error:
        raise ConfigError([Problem(field="signingKeys", message=str(error), remedy=_KEYS)]) from error
