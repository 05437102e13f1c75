"""What is registered or promised, where it comes from and why: plain data, as the command line prints it.

`rows` lists ops, plugins, backends and the other kinds, `details` tells all about one op, `why` which plugin, function
or kernel stands behind a name.
"""
