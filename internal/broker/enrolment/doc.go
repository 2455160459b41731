// Package enrolment issues certificates to clusters: the first one to a cluster with a token or
// an approval, later ones to a cluster that presents its current certificate.
//
//	request ─▶ CheckRequest ─▶ decide ─▶ CertificateRequest ─▶ answer
//	           contents          token,   cert-manager signs
//	                             lists
//
// cert-manager approves every CertificateRequest by default. Therefore the broker creates one only
// after it has decided that the cluster gets a certificate. All state is in the API server, so any
// replica can answer any request.
package enrolment
