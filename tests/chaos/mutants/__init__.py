"""The real code with one load-bearing rule taken away: what notices?  ``python -m tests.chaos.mutants --seeds 100``

patches.py   each mutant: which text is replaced by which, and the fault runs that have to notice
tree.py      a copy of the sources with a mutant's patches, and the model in it
__main__.py  the model and the fault runs on the patched copy
"""
