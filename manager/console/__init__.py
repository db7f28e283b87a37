"""The console's pages and files: what a browser loads before it calls the API.

pages.py assets.py              the pages' shells and their words; scripts, styles and pictures
"""
