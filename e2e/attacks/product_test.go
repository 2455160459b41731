package attacks

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestRightsEndAtTheClusterAndBeforeItsSecrets checks that the credentials of broker and agents are
// useless in other clusters and cannot read Secrets in their own.
func TestRightsEndAtTheClusterAndBeforeItsSecrets(t *testing.T) {
	env := stage.Keep(t)
	ctx := t.Context()
	clusters := map[string]*e2e.Cluster{"broker": env.Broker, "rome": env.Member("rome"), "paris": env.Member("paris")}
	for who := range clusters {
		config, err := clientcmd.BuildConfigFromFlags("", env.Product.Kubeconfig(who))
		check(t, err)
		for where, cluster := range clusters {
			if where == who {
				continue
			}
			t.Run(who+" in "+where, func(t *testing.T) {
				there := rest.CopyConfig(config)
				there.Host, there.TLSClientConfig = cluster.Config.Host, rest.TLSClientConfig{CAData: cluster.Config.CAData, CAFile: cluster.Config.CAFile}
				stranger, err := client.New(there, client.Options{})
				if err == nil { // discovery itself may be refused
					err = stranger.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
				}
				if !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
					t.Errorf("got %v, want unauthorized", err)
				}
			})
		}
		t.Run(who+" at home", func(t *testing.T) {
			at, err := client.New(config, client.Options{})
			check(t, err)
			refused(t, at.List(ctx, &corev1.SecretList{}))
			refused(t, at.List(ctx, &corev1.SecretList{}, client.InNamespace("kube-system")))
			refused(t, at.Get(ctx, client.ObjectKey{Namespace: "default", Name: "any"}, &corev1.Secret{}))
			refused(t, at.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}}))
			refused(t, at.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "any"}}))
			refused(t, at.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
			bystander := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bystander"},
				Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "pause"}}},
			}
			check(t, clusters[who].Create(ctx, bystander))
			refused(t, at.Delete(ctx, bystander))
			check(t, clusters[who].Delete(ctx, bystander, client.GracePeriodSeconds(0)))
		})
	}
}
