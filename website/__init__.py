"""The documentation site: what mkdocs needs to build it beyond the pages in docs/. Not part of the package."""
