"""attest: how faithfully sparse and quantised attention reproduces exact attention."""
