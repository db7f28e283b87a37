"""The console's pages and files: what a browser loads before it calls the API.

pages.py                        the pages' shells
texts.py assets.py              their words; scripts, styles and pictures
"""
