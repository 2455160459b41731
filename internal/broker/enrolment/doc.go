// Package enrolment issues certificates to clusters: the first one to a cluster with a token or
// an approval, later ones to a cluster that presents its current certificate.
//
//	request ─▶ CheckRequest ─▶ decide ─▶ CertificateRequest ─▶ answer
//	           contents          token,   cert-manager signs
//	                             lists
//
// cert-manager approves every CertificateRequest by default, so none is created before the
// decision. All state is in the API server: any replica can answer any request.
package enrolment
