"""Ed25519 key pairs in OpenSSH's text formats."""

from __future__ import annotations


def new_key_pair() -> tuple[str, str]:
    """Return a new private key (the text of a key file) and its public key (one line)."""
    # It comes with paramiko, in the extra ``hosts``, and takes long to import.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return text.decode(), public.decode()
