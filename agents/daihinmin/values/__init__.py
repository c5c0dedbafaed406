"""Value networks and policies of Daihinmin, and the encodings they read."""
