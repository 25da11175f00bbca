"""An OpenWOP v1 host: discovery, runs, their events, the node catalog, and the capability gate."""
