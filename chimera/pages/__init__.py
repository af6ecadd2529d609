"""HTML pages that need nothing else: the frame of a page, tables and plots. What they show comes from the layers above."""
