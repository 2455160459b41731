package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
)

func forgetCommand() *cobra.Command {
	namespace, timeout := cluster.Namespace(), time.Minute
	cmd := &cobra.Command{
		Use:   "forget CLUSTER-ID",
		Short: "Remove a cluster that is gone for good.",
		Long: `Removes a cluster whose agent will never confirm that it holds nothing. What the
cluster requested ends. What others reserved there moves to another provider, waits
in the queue or ends. The cluster must be denied in the BrokerConfig or silent for
staleThreshold.

It asks the running broker and waits for its answer. It runs in a pod of the broker,
or anywhere else with --kubeconfig and the right to patch ClusterAdvertisements.`,
		Example: `  kubectl --namespace liqo-resource-broker exec deployment/broker-liqo-resource-broker -- broker forget berlin
  broker forget berlin --kubeconfig=$HOME/.kube/config --namespace=liqo-resource-broker`,
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: cluster.RunOnce(newScheme, func(cmd *cobra.Command, args []string, _ *rest.Config, c client.Client) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return forgetCluster(ctx, c, cmd.OutOrStdout(), namespace, args[0])
		}),
	}
	cmd.Flags().StringVar(&namespace, "namespace", namespace, "namespace of the broker; POD_NAMESPACE if set")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the broker")
	cluster.BindKubeconfig(cmd.Flags())
	return cmd
}

// forgetCluster sets ForgetAnnotation on the cluster's ClusterAdvertisement, and waits until the
// broker has removed the cluster or refused.
func forgetCluster(ctx context.Context, c client.Client, out io.Writer, namespace, clusterID string) error {
	obj := &brokerv1alpha1.ClusterAdvertisement{}
	key := client.ObjectKey{Namespace: namespace, Name: clusterID}
	err := c.Get(ctx, key, obj)
	if err == nil {
		before := obj.DeepCopy()
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, brokerv1alpha1.ForgetAnnotation, clusterID)
		err = c.Patch(ctx, obj, client.MergeFrom(before)) // the broker's account may not update
	}
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q has no ClusterAdvertisement %q: kubectl get clusteradvertisements -A lists the clusters; a cluster without an agent is removed by deleting its own", namespace, clusterID)
	}
	if err != nil {
		return fmt.Errorf("marking ClusterAdvertisement %s: %w", key, err)
	}
	if err := awaitForgotten(ctx, c, key, obj.UID); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `Cluster %[1]s is forgotten. Placements there that were given up: %[2]d.
Its certificate is valid until it expires. While it is, the agent may return as that of a new
cluster, unless deniedClusters of the BrokerConfig lists %[1]s.
`, clusterID, obj.Status.Reservations)
	return err
}

func awaitForgotten(ctx context.Context, c client.Client, key client.ObjectKey, uid types.UID) error {
	refusal, refused := "", false
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		obj := &brokerv1alpha1.ClusterAdvertisement{}
		err := c.Get(ctx, key, obj)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		refusal, refused = strings.CutPrefix(obj.Annotations[brokerv1alpha1.ForgetAnnotation], brokerv1alpha1.ForgetRefusedPrefix)
		return refused || obj.UID != uid, nil
	})
	switch {
	case wait.Interrupted(err):
		return fmt.Errorf("no broker has answered: check with broker check that one leads; the request in annotation %s of ClusterAdvertisement %s stays", brokerv1alpha1.ForgetAnnotation, key)
	case err != nil:
		return fmt.Errorf("waiting for the broker: %w", err)
	case refused:
		return fmt.Errorf("the broker refuses: %s", refusal)
	}
	return nil
}
