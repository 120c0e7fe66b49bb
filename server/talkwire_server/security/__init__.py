"""Who may call, and who can read along: certificates, tokens, places (docs/security.md)."""
