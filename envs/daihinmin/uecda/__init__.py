"""The competition's network protocol: pure codec, server, client."""
