"""Training settings and measurements of the pretrained weights in the package."""
