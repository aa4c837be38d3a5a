"""Archives that customers send: read with every bound, refused for anything but plain files and directories, and written anew as one tar.

No framework and no library that believes headers: what is read here was written by anybody.
"""
