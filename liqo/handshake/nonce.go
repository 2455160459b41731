package handshake

import (
	"encoding/base64"
	"fmt"

	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"
)

// nonceText is the length of a nonce as text: NonceSize random bytes in base64. Liqo signs the
// text, not the bytes.
const nonceText = 88

// nonceEncoding is strict about unused bits at the end, so that each nonce has exactly one
// valid text.
var nonceEncoding = base64.StdEncoding.Strict()

// checkNonce returns an error for any nonce that Liqo's nonce controller would not make.
//
// Liqo signs the nonce alone, without any context, and with a key that also authenticates this
// cluster in TLS and signs its certificate requests. If a peer could choose the signed bytes
// freely, the signature could let it log in elsewhere as this cluster. Text of 88 base64
// characters is safe, because nothing else that such a key signs has this form: a TLS 1.3
// transcript begins with spaces, a TLS 1.2 transcript and a DER structure contain control
// bytes, an SSH message contains zeros, and a JWT contains a dot.
func checkNonce(nonce []byte) error {
	if len(nonce) != nonceText {
		return fmt.Errorf("nonce of %d bytes, Liqo's have %d: this cluster does not sign it", len(nonce), nonceText)
	}
	var random [nonceText]byte // DecodedLen would include the padding
	n, err := nonceEncoding.Decode(random[:], nonce)
	if err != nil || n != NonceSize {
		return fmt.Errorf("nonce is not the base64 text of %d bytes that Liqo makes: this cluster does not sign it", NonceSize)
	}
	return nil
}

// signNonce signs a nonce with the private key of this cluster's Liqo. It returns an error, and
// signs nothing, if checkNonce refuses the nonce.
func signNonce(key any, nonce []byte) ([]byte, error) {
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	return authentication.SignNonce(key, nonce)
}

// NonceSize is the number of random bytes in a nonce, as in Liqo.
const NonceSize = 64
