// Package receipt defines the receipts that the broker signs. A receipt states what a requester and
// a provider have agreed about a placement, and a position in the broker's journal that contains
// the agreement.
//
//	broker: Agreement ── Signer ──▶ Receipt ──▶ both agents: Checker ──▶ spec.receipt of an instruction
//	                                                                         │
//	anyone with the CA of the broker's server certificate:       Verify ◀────┘
//
// A receipt is stored as it was signed, and its statement is never encoded again. Verify accepts
// only the encoding that the Signer writes, so two readers cannot understand a receipt differently.
package receipt
