// Package enrolment gives clusters their certificates: the first one to a cluster
// that has a token or was approved, and every later one to a cluster that shows the
// certificate it has.
//
//	request ─▶ CheckRequest ─▶ decide ─▶ CertificateRequest ─▶ answer
//	           what it asks     token,     cert-manager signs
//	           for              lists
//
// cert-manager approves every CertificateRequest unless it is told otherwise, so
// none is made before the decision. Everything that has to be remembered stands in
// the API server: any replica can answer any request.
package enrolment
