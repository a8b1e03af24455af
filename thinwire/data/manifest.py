"""The name of the file that lists the files of a data set. It stands apart so that it needs no torch."""

MANIFEST = "manifest.json"
