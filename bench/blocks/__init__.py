"""From kept lines to the tables and numbers of pages: one module a topic, listed in bench/tables.py.

Every function takes the lines of one file of results or of several, in the order in which tables.py names
them, and returns Markdown, or several texts by name. Only the standard library is used.
"""
