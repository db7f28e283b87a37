/** What is asked for again in the same dialog is not done twice: the answer to the first call may have been lost on its way. */
import { t } from "./text.js";

/** @typedef {(wish: unknown) => Record<string, string>} Once the header of a call; the same wish has the same key */

/** Of one dialog: what is asked for in another is wished for anew. @returns {Once} */
export function onlyOnce() {
  /** @type {Map<string, string>} */
  const keys = new Map();
  return (wish) => {
    const text = JSON.stringify(wish);
    const key = keys.get(text) ?? crypto.getRandomValues(new Uint32Array(4)).join("-"); // there is no randomUUID without TLS
    keys.set(text, key);
    return { "Idempotency-Key": key };
  };
}

/** Why a call failed, said in the dialog that may ask again. @param {import("./api.js").ApiError} error */
export const saidOnce = ({ message, isInDoubt }) => (isInDoubt ? t("error.again", { what: message }) : message);
