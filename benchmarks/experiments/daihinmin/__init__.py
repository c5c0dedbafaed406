"""Expected finishing places in Daihinmin (Kuwabara and Hoki 2018)."""
