"""How the pretrained weights in the package were made and measured."""
