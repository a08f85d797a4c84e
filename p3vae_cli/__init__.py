"""Files, screens and commands around the models; `import p3vae` holds the functions for notebooks."""
