"""Players of Daihinmin that follow fixed rules."""
