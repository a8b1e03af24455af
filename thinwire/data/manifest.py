"""Names of the files of a data set that was laid out. They stand apart so that they need no torch."""

# Lists the other files.
MANIFEST = "manifest.json"
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
SOURCES = "sources.csv"
