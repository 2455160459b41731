package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

func (o *checkOptions) checkIdentity(ctx context.Context, _ client.Reader) checkup.Finding {
	if o.certPath == "" {
		return checkup.Skip("--broker-cert-path is not given")
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return o.whyNotEnrolled(ctx, err)
	}
	id, err := files.ClusterID()
	if err != nil {
		return checkup.Fail(identityAdvice, "%v", err)
	}
	if o.clusterID != "" && o.clusterID != id {
		return checkup.Fail("set --cluster-id to the certificate's ID, or enrol again", "--cluster-id is %q, the certificate is for %q", o.clusterID, id)
	}
	credentials, err := files.Current()
	if err != nil {
		return checkup.Fail(identityAdvice, "%v", err)
	}
	found := checkup.Validity(credentials.Certificate.Leaf, time.Now())
	found.Message = fmt.Sprintf("the certificate of cluster %q %s", id, found.Message)
	return found
}

// whyNotEnrolled explains why there is no certificate. If the agent enrols itself, it also calls
// the enrolment listener, because the most frequent cause is a wrong address or CA hash.
func (o *checkOptions) whyNotEnrolled(ctx context.Context, missing error) checkup.Finding {
	if o.enrolmentURL == "" {
		return checkup.Fail(identityAdvice, "%v", missing)
	}
	enroller, err := httptransport.NewEnroller(httptransport.EnrollerOptions{
		URL: o.enrolmentURL, CAHashes: o.enrolmentCAHashes, Now: time.Now, UserAgent: userAgent(),
	})
	if err != nil {
		return checkup.Fail("correct enrolment.url and enrolment.caHash in the chart's values: broker enrol prints both", "%v; %v", missing, err)
	}
	if _, err := enroller.Rules(ctx); err != nil {
		return checkup.Fail(adviceAboutEnrolment(err), "%v; the enrolment listener: %v", missing, err)
	}
	return checkup.Fail("check the agent's log: a token may be used or expired, or an administrator of the broker must approve the cluster; "+identityAdvice,
		"%v; the enrolment listener answers", missing)
}

func adviceAboutEnrolment(err error) string {
	switch {
	case checkup.IsCertificateDemanded(err):
		return "enrolment.url is the address of the listener for agents, which demands a certificate: use the port of the enrolment listener, 8444 by default"
	case isUntrustedServer(err):
		return "set enrolment.caHash to the hash that broker enrol prints; if it is that already, another program answers at enrolment.url"
	}
	return "check enrolment.url, and the network between this cluster and the broker"
}

func (o *checkOptions) checkBroker(ctx context.Context, _ client.Reader) checkup.Finding {
	broker, err := openBroker(o.options)
	if errors.Is(err, errNoBroker) {
		return checkup.Skip("%v", err)
	}
	if err != nil {
		return checkup.Fail(o.adviceAboutSettings(), "%v", err)
	}
	defer broker.Close() //nolint:errcheck // it is not used any longer, so an error does not matter
	pong, err := broker.Ping(ctx)
	if err != nil {
		return checkup.Fail(adviceAboutBroker(err), "%v", err)
	}
	o.pong = pong
	return brokerFinding(pong, version.String())
}

// adviceAboutSettings returns the remedy if the settings do not allow a connection to the broker.
func (o *checkOptions) adviceAboutSettings() string {
	for _, text := range o.brokerURLs {
		if !strings.HasPrefix(text, "https://") {
			return "the broker serves https only: correct broker.urls in the chart's values, or --public-url of the broker, which enrolled clusters receive"
		}
	}
	return identityAdvice
}

// adviceAboutBroker returns the remedy if the broker does not answer a ping or refuses it.
func adviceAboutBroker(err error) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "call the broker by a name in its certificate, or add the name: certificates.dnsNames in the broker's chart"
	}
	switch {
	case isUntrustedServer(err):
		return "ca.crt in --broker-cert-path does not hold the CA that signed the broker's certificate: replace it, or enrol again with the enrolment.caHash that broker enrol prints; if it is right, another program answers there"
	case checkup.IsRemoteAlert(err):
		return "the broker does not accept this cluster's certificate: its agents-ca.crt holds another CA, or the certificate has expired; enrol the cluster again"
	case fault.ReasonOf(err) == fault.ClusterDenied:
		return "the broker's administrator shuts this cluster out: check deniedClusters and approvedClusters of its BrokerConfig"
	case fault.ReasonOf(err) == fault.NotFound:
		return "correct the port of --broker-url: agents call the listener of --bind-address, 8443 by default"
	case fault.ReasonOf(err) == fault.Unavailable:
		return "run broker check in the broker's cluster: it cannot read or write its journal"
	}
	return "check the address, that a broker runs, and the network in between"
}

// isUntrustedServer reports whether the server's certificate is signed by a CA that this side does
// not trust.
func isUntrustedServer(err error) bool {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// brokerFinding judges the broker's answer to a ping. agent is the version of this agent.
func brokerFinding(pong *v1.Pong, agent string) checkup.Finding {
	if skew := (version.Skew{Agent: v1.Minor, Broker: int(pong.ApiMinor)}); !skew.Fits() {
		return checkup.Fail(skew.Advice(), "answers; %s: these versions do not work together", skew)
	}
	if pong.Version != agent {
		return checkup.Warn("upgrade the broker first, then the agents; adjacent versions work together",
			"answers with version %s, this agent has %s", pong.Version, agent)
	}
	return checkup.Found("answers with version %s", pong.Version)
}

var errNoBroker = errors.New("neither flags nor the certificate's folder contain the broker's address")

// openBroker returns a transport to the broker, with the same settings as the agent. It returns
// errNoBroker if no address of the broker, or no folder with a certificate, is known.
func openBroker(o *options) (*httptransport.Transport, error) {
	if o.brokerKubeconfig != "" {
		return o.newTransport(nil)
	}
	if len(o.brokerURLs) == 0 && o.certPath != "" {
		text, err := os.ReadFile(filepath.Join(o.certPath, brokerURLsFile))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		o.brokerURLs = strings.Fields(string(text))
	}
	if len(o.brokerURLs) == 0 || o.certPath == "" {
		return nil, errNoBroker
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return nil, err
	}
	return o.newTransport(files)
}
