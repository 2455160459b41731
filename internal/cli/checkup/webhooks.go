package checkup

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Webhooks returns a check of the ValidatingWebhookConfiguration with the given name. It checks
// that each webhook has a CA bundle, and that the webhook's Service answers with a certificate of
// that CA.
func Webhooks(c client.Reader, name string, now func() time.Time) Check {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	missing := Warn("set webhook.enabled=true in the chart; without webhooks, invalid objects are refused later, by the controllers",
		"ValidatingWebhookConfiguration %q is missing: objects are not validated when they are written", name)
	look := checkWebhooks(c, name, now, configuration, missing, func() (hooks []webhookClient) {
		for _, hook := range configuration.Webhooks {
			hooks = append(hooks, webhookClient{hook.Name, hook.ClientConfig})
		}
		return hooks
	})
	return Check{"validating webhooks", look}
}

// MutatingWebhooks is like Webhooks, for a MutatingWebhookConfiguration.
func MutatingWebhooks(c client.Reader, name string, now func() time.Time) Check {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	missing := Warn("set guard.enabled=true and webhook.enabled=true in the chart where clusters lend to each other",
		"MutatingWebhookConfiguration %q is missing: a consumer may get a certificate of any groups, its pods beyond a grant start before they are evicted, and a namespace that two clusters offload to each other is not handled correctly", name)
	look := checkWebhooks(c, name, now, configuration, missing, func() (hooks []webhookClient) {
		for _, hook := range configuration.Webhooks {
			hooks = append(hooks, webhookClient{hook.Name, hook.ClientConfig})
		}
		return hooks
	})
	return Check{"mutating webhooks", look}
}

// webhookClient holds the name of a webhook and the settings with which the API server calls it.
type webhookClient struct {
	name   string
	config admissionregistrationv1.WebhookClientConfig
}

func checkWebhooks(c client.Reader, name string, now func() time.Time, configuration client.Object, missing Finding, all func() []webhookClient) func(context.Context) Finding {
	return func(ctx context.Context) Finding {
		if name == "" {
			return Skip("no webhook configuration is named")
		}
		err := c.Get(ctx, client.ObjectKey{Name: name}, configuration)
		if apierrors.IsNotFound(err) {
			return missing
		}
		if err != nil {
			return readFailure(err)
		}
		hooks := all()
		if len(hooks) == 0 {
			return Warn("", "webhook configuration %q names no webhook", name)
		}
		for _, hook := range hooks {
			if finding := checkWebhook(ctx, hook, now); finding.Level != OK {
				return finding
			}
		}
		return Found("%d trusted and reachable", len(hooks))
	}
}

func checkWebhook(ctx context.Context, hook webhookClient, now func() time.Time) Finding {
	bundle, service := hook.config.CABundle, hook.config.Service
	if len(bundle) == 0 {
		return Fail("check that cert-manager's cainjector runs, and its log; without cert-manager set webhook.caBundle",
			"%s has no CA bundle: the API server refuses every object the webhook covers", hook.name)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return Fail("", "the CA bundle of %s holds no certificate in PEM form", hook.name)
	}
	if service == nil {
		return Found("%s", hook.name)
	}
	port := int32(443)
	if service.Port != nil {
		port = *service.Port
	}
	name := fmt.Sprintf("%s.%s.svc", service.Name, service.Namespace)
	if !inCluster() && !canResolve(ctx, name) {
		return Skip("the CA bundle is set; run the check in a pod to see whether %s answers: the name resolves only inside the cluster", name)
	}
	leaf, finding := Listener{Now: now}.fetchCertificate(ctx, fmt.Sprintf("%s:%d", name, port), name, roots)
	if leaf == nil {
		return finding
	}
	return Validity(leaf, now())
}

// inCluster reports whether this program runs in a pod, where the names of Services can be
// resolved.
func inCluster() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

func canResolve(ctx context.Context, name string) bool {
	_, err := net.DefaultResolver.LookupHost(ctx, name)
	unknown, ok := errors.AsType[*net.DNSError](err)
	return !ok || !unknown.IsNotFound
}

// readFailure returns a finding about an object that could not be read. If the account may not
// read it, the check is skipped, because the installation may still be fine.
func readFailure(err error) Finding {
	if apierrors.IsForbidden(err) {
		_, what, _ := strings.Cut(err.Error(), "forbidden: ")
		return Skip("this account lacks the permission: %s", what)
	}
	return Fail("", "%v", err)
}
