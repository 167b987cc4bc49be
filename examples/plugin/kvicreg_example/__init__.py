"""A kernel, a method and a source of images for kvicreg, in a package of their own."""
