package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
)

const (
	// configurer is the field manager under which the command applies the BrokerConfig.
	configurer = "liqo-resource-broker-configure"
	// configureInterval is the pause between attempts to apply the BrokerConfig.
	configureInterval = 2 * time.Second
)

func configureCommand() *cobra.Command {
	timeout := 3 * time.Minute
	cmd := &cobra.Command{
		Use:   "configure FILE",
		Short: "Apply a BrokerConfig as soon as the cluster is ready for it.",
		Long: `Applies the BrokerConfig in a file. While its CRD or its webhook is not ready, as at
the beginning of an installation, it waits. It fails at once if the BrokerConfig is
refused. The chart runs it after helm install and helm upgrade.`,
		Example:      `  broker configure brokerconfig.yaml --timeout=1m`,
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: cluster.RunOnce(newScheme, func(cmd *cobra.Command, args []string, _ *rest.Config, c client.Client) error {
			config, err := readConfig(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return applyConfig(ctx, c, config, cmd.OutOrStdout())
		}),
	}
	cluster.BindKubeconfig(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait until the cluster is ready for it")
	return cmd
}

func readConfig(file string) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	config := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &config.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if kind := config.GroupVersionKind(); kind != brokerv1alpha1.GroupVersion.WithKind("BrokerConfig") {
		return nil, fmt.Errorf("%s contains a %s, give a BrokerConfig of %s", file, kind, brokerv1alpha1.GroupVersion)
	}
	return config, nil
}

// applyConfig tries to apply the BrokerConfig until the API server accepts or refuses it, or ctx
// ends.
func applyConfig(ctx context.Context, c client.Client, config *unstructured.Unstructured, out io.Writer) error {
	c = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	var trouble error
	err := wait.PollUntilContextCancel(ctx, configureInterval, true, func(ctx context.Context) (bool, error) {
		// Apply writes the API server's answer into its argument, so it gets a copy of config.
		applied := client.ApplyConfigurationFromUnstructured(config.DeepCopy())
		err := c.Apply(ctx, applied, client.FieldOwner(configurer), client.ForceOwnership)
		if err == nil {
			return true, nil
		}
		if !isTransient(err) || ctx.Err() != nil { // a call that the timeout cut off says nothing about the cluster
			return false, err
		}
		if trouble == nil {
			if _, err := fmt.Fprintf(out, "waiting: %v\n", err); err != nil {
				return false, err
			}
		}
		trouble = err
		return false, nil
	})
	switch {
	case err == nil:
		_, err = fmt.Fprintf(out, "BrokerConfig %q applied\n", config.GetName())
		return err
	case ctx.Err() != nil && trouble != nil:
		return fmt.Errorf("the cluster did not accept BrokerConfig %q in time: %w", config.GetName(), trouble)
	}
	return fmt.Errorf("BrokerConfig %q: %w", config.GetName(), err)
}

// isTransient reports whether an error means that the cluster is not ready yet: the CRD is missing,
// its webhook does not answer, or the API server is busy or unreachable. All other errors are
// refusals.
func isTransient(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	return apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}
