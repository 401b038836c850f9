"""The peers that may talk (docs/security.md): keys that all derive from one secret, CURVE on every socket, and ZAP.

`keys` makes the keys, `rotation` replaces their secret, `curve` gives them to sockets, `doorkeeper` says who has come,
`tokens` let another host in, `private` reads files of secrets, and `paths` checks what others name.
"""
