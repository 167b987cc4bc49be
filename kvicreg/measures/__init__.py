"""What training, evaluation and selection all measure of an encoder: features, neighbours, spectra."""
