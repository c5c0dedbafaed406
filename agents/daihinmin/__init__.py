"""Players of Daihinmin."""
