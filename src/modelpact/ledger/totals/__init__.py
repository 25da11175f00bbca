"""The tables of costs, and the totals made from them."""
