"""Tools of the checkout: none of this is installed."""
