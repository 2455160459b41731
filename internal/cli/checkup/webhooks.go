package checkup

import (
	"context"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Webhooks returns a check that the ValidatingWebhookConfiguration with the given name exists, and that each webhook
// has a CA bundle. Without one, the API server refuses every object that the webhook covers.
func Webhooks(c client.Reader, name string) Check {
	return Check{"webhooks", func(ctx context.Context) Finding {
		if name == "" {
			return Skip("--name is not given")
		}
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, configuration)
		if apierrors.IsNotFound(err) {
			return Warn("set webhook.enabled=true in the chart; without webhooks, invalid objects are refused later, by the controllers",
				"ValidatingWebhookConfiguration %q is missing: objects are not validated when they are written", name)
		}
		if err != nil {
			return readFailure(err)
		}
		for _, hook := range configuration.Webhooks {
			if len(hook.ClientConfig.CABundle) == 0 {
				return Fail("check that cert-manager's cainjector runs, and its log; without cert-manager set webhook.caBundle",
					"%s has no CA bundle: the API server refuses every object the webhook covers", hook.Name)
			}
		}
		return Found("%d have a CA bundle", len(configuration.Webhooks))
	}}
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
