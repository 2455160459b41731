package handshake

import (
	"encoding/base64"
	"fmt"

	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"
)

// nonceText is the length of the base64 text of NonceSize random bytes. Liqo signs the text.
const nonceText = 88

// nonceEncoding refuses text with unused bits set, so that each nonce has exactly one spelling.
var nonceEncoding = base64.StdEncoding.Strict()

// checkNonce refuses any nonce that Liqo's nonce controller would not make.
//
// The signature over a nonce is bare: Liqo adds no context to it, and Liqo's key also
// authenticates this cluster in TLS and signs its certificate requests. A peer that chooses
// the signed bytes freely could therefore log in elsewhere as this cluster. No other format
// that such a key signs consists of 88 base64 characters: a TLS 1.3 transcript begins with
// spaces, a TLS 1.2 transcript and a DER structure contain control bytes, an SSH message
// contains zeros, and a JWT contains a dot.
func checkNonce(nonce []byte) error {
	if len(nonce) != nonceText {
		return fmt.Errorf("nonce of %d bytes, Liqo's have %d: this cluster does not sign it", len(nonce), nonceText)
	}
	var random [nonceText]byte // DecodedLen counts the padding
	n, err := nonceEncoding.Decode(random[:], nonce)
	if err != nil || n != NonceSize {
		return fmt.Errorf("nonce is not the base64 text of %d bytes that Liqo makes: this cluster does not sign it", NonceSize)
	}
	return nil
}

// signNonce signs a nonce with the private key of this cluster's Liqo. It refuses to sign
// anything else.
func signNonce(key any, nonce []byte) ([]byte, error) {
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	return authentication.SignNonce(key, nonce)
}

// NonceSize is the number of random bytes in a nonce, as in Liqo.
const NonceSize = 64
