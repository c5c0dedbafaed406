"""Five-player Daihinmin under the rules of the UEC competition."""
