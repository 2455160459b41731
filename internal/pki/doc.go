// Package pki defines what certificates mean to the broker and its agents: which cluster a
// certificate identifies, where certificates lie on disk, and how messages are signed with
// them.
//
//	agents' CA ── signs ──▶ agent's certificate   CN = cluster ID, client auth
//	                          │ mTLS to the broker        ClusterID
//	                          │ signed envelopes          Sign, Verify
//	server CA  ── signs ──▶ broker's certificate  server auth
//	                          │ TLS to agents             ServerTLS
//	                          │ signed receipts           ReceiptSigner, VerifyStatement
package pki
