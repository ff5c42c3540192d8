"""Plans made on the host: elimination orders, junction trees, contraction paths, forecasts."""
