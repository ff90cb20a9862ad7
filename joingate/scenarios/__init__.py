"""The bundled scenarios: two stories that the product exists for, played over the public SDK against a live system."""
