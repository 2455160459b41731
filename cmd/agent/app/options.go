package app

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/listener"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/logging"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing/otlp"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// Values of --broker-transport.
const (
	transportHTTP       = "http"
	transportKubernetes = "kubernetes"
)

// Values of --peering-mode.
const (
	peeringBrokered   = "brokered"
	peeringKubeconfig = "kubeconfig"
	peeringNone       = "none"
)

// Values of --networking.
const (
	networkingAuto     = "auto"
	networkingEnabled  = "enabled"
	networkingDisabled = "disabled"
)

type options struct {
	// configFile is the value of --config; empty if there is no configuration file.
	configFile string

	brokerTransport  string
	brokerURLs       []string
	brokerKubeconfig string
	brokerNamespace  string
	certPath         string

	identitySecret    string
	podNamespace      string
	enrolmentURL      string
	enrolmentToken    string
	enrolmentCAHashes []string

	clusterID      string
	clusterName    string
	endpointURL    string
	kubeconfigsDir string
	peeringMode    string
	liqoNamespace  string

	allowedProxies []string

	networking         string
	gatewayServiceType string

	nodeLabels []string

	advertisementInterval    time.Duration
	pollInterval             time.Duration
	advertisementName        string
	advertisementNamespace   string
	instructionNamespace     string
	acceptBrokerReservations bool
	actor                    string
	reclaimTimeout           time.Duration
	giveUpTimeout            time.Duration
	expiryNotice             time.Duration
	drainTimeout             time.Duration

	offloadedLimits map[string]string
	tenantLimits    map[string]string
	objectLimits    guard.ObjectLimits
	// objectLimitsProbe is the name of a ResourceQuota in the agent's namespace; see flag
	// --object-limits-probe.
	objectLimitsProbe string
	peerLifetime      time.Duration
	guardElsewhere    bool
	bindSlices        bool
	guardPolicies     []string
	forbidHostAccess  bool
	hold              string
	placeholderImage  string
	placeholderClass  string

	// provisioningRequests is true if the agent serves ProvisioningRequests.
	provisioningRequests bool
	// capacityBuffers is true if the agent serves CapacityBuffers.
	capacityBuffers bool
	// burstPolicies is true if the agent serves BurstPolicies.
	burstPolicies bool

	healthAddress string
	metrics       listener.Metrics
	leaderElect   bool
	console       listener.Console
	tracing       otlp.Options
	webhook       webhooks.Options
	zap           zap.Options
}

func defaultOptions() *options {
	return &options{
		brokerTransport: transportHTTP, brokerNamespace: "default", liqoNamespace: "liqo",
		networking: networkingAuto, gatewayServiceType: string(corev1.ServiceTypeLoadBalancer),
		podNamespace:          os.Getenv("POD_NAMESPACE"),
		advertisementInterval: 30 * time.Second, pollInterval: 5 * time.Second,
		advertisementName: "cluster-advertisement", advertisementNamespace: "default",
		instructionNamespace: "default", acceptBrokerReservations: true, actor: actorReported,
		reclaimTimeout: 10 * time.Minute, giveUpTimeout: 10 * time.Minute,
		expiryNotice: 10 * time.Minute, drainTimeout: 5 * time.Minute,
		peerLifetime: 8 * time.Hour,
		hold:         string(agentv1alpha1.HoldLedger), placeholderImage: "registry.k8s.io/pause:3.10.1",
		healthAddress: ":8081", metrics: listener.Metrics{Address: ":8080"}, zap: logging.Defaults(),
	}
}

func (o *options) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.configFile, "config", o.configFile, "AgentConfiguration file: what this cluster lends and at which prices; reread when it changes")

	fs.StringVar(&o.brokerTransport, "broker-transport", o.brokerTransport, "http (--broker-url), or kubernetes (--broker-kubeconfig)")
	fs.StringSliceVar(&o.brokerURLs, "broker-url", o.brokerURLs, "https addresses of the broker, separated by commas")
	fs.StringVar(&o.certPath, "broker-cert-path", o.certPath, "folder with tls.crt, tls.key, ca.crt and agents-ca.crt")
	o.bindMailboxes(fs)

	fs.StringVar(&o.identitySecret, "identity-secret", o.identitySecret, "Secret in POD_NAMESPACE for the key and certificate of an enrolled agent, which also writes them to --broker-cert-path; if unset, you provide these files")
	fs.StringVar(&o.enrolmentURL, "enrolment-url", o.enrolmentURL, "https address of the broker's enrolment listener")
	fs.StringVar(&o.enrolmentToken, "enrolment-token", o.enrolmentToken, "one-time token of broker enrol, as @FILE or env:NAME; without it an administrator must approve the cluster")
	fs.StringSliceVar(&o.enrolmentCAHashes, "enrolment-ca-hash", o.enrolmentCAHashes, "sha256:HEX of the public key of the enrolment listener's CA; several, separated by commas")

	fs.StringVar(&o.clusterID, "cluster-id", o.clusterID, "ID of this cluster (default the certificate's common name, Liqo's cluster ID, or the UID of kube-system)")
	fs.StringVar(&o.clusterName, "cluster-name", o.clusterName, "display name of this cluster; the ID if unset")
	fs.StringVar(&o.endpointURL, "endpoint-url", o.endpointURL, "https address of this cluster's API server for other clusters (default apiServer.address of Liqo's chart)")
	fs.StringSliceVar(&o.nodeLabels, "node-labels", o.nodeLabels, "node labels that requests can select, for example nvidia.com/gpu.product")
	fs.StringVar(&o.peeringMode, "peering-mode", o.peeringMode, "brokered (peer through Liqo), kubeconfig (also with clusters in --kubeconfigs-dir) or none (reserve only); if unset kubeconfig with --kubeconfigs-dir, else brokered if Liqo is installed")
	fs.StringVar(&o.kubeconfigsDir, "kubeconfigs-dir", o.kubeconfigsDir, "folder with <cluster-id>.kubeconfig for each provider without an agent")
	fs.StringVar(&o.liqoNamespace, "liqo-namespace", o.liqoNamespace, "namespace of Liqo")
	fs.StringSliceVar(&o.allowedProxies, "allowed-proxies", o.allowedProxies, "proxy URLs that providers may prescribe to this cluster's Liqo")
	fs.StringVar(&o.networking, "networking", o.networking, "connect networks through Liqo's gateways: enabled, disabled, or auto (if Liqo's networking module exists at the start)")
	fs.StringVar(&o.gatewayServiceType, "gateway-service-type", o.gatewayServiceType, "Service type of this cluster's gateways: LoadBalancer, NodePort or ClusterIP")

	fs.DurationVar(&o.advertisementInterval, "advertisement-requeue-interval", o.advertisementInterval, "interval between advertisements while nothing changes")
	fs.DurationVar(&o.pollInterval, "instruction-poll-interval", o.pollInterval, "interval between polls if the broker does not support long polling")
	o.bindAdvertisement(fs)
	fs.StringVar(&o.instructionNamespace, "instruction-namespace", o.instructionNamespace, "namespace of ReservationInstructions and ProviderInstructions")
	fs.BoolVar(&o.acceptBrokerReservations, "accept-broker-reservations", o.acceptBrokerReservations, "peer for Reservations that were made in the broker's cluster")
	fs.StringVar(&o.actor, "actor", o.actor, "whether the broker learns users' names: Reported or Hidden")
	fs.DurationVar(&o.giveUpTimeout, "give-up-timeout", o.giveUpTimeout, "how long to wait for a silent provider once all placements there have ended; 0 means no limit")
	fs.DurationVar(&o.reclaimTimeout, "reclaim-timeout", o.reclaimTimeout, "how long a consumer may take to release an ended placement; 0 means no limit")

	fs.DurationVar(&o.expiryNotice, "expiry-notice", o.expiryNotice, "how long before the end of its duration a request gets condition Ending; 0 means never")
	fs.DurationVar(&o.drainTimeout, "drain-timeout", o.drainTimeout, "how long to evict pods of an ended reservation before they are deleted")
	fs.DurationVar(&o.peerLifetime, "peer-certificate-lifetime", o.peerLifetime, "lifetime of certificates that Liqo has signed here for other clusters, from 10m to 8760h; requires webhooks")
	fs.BoolVar(&o.guardElsewhere, "guard-elsewhere", o.guardElsewhere, "require a reservation for every identity, also in tenant namespaces that the agent did not create; requires webhooks")
	fs.StringToStringVar(&o.offloadedLimits, "offloaded-object-limits", o.offloadedLimits, "ResourceQuota of every namespace that a consumer offloads here, for example count/configmaps=100")
	fs.StringToStringVar(&o.tenantLimits, "tenant-object-limits", o.tenantLimits, "ResourceQuota of every tenant namespace that the agent created")
	fs.StringVar(&o.objectLimitsProbe, "object-limits-probe", o.objectLimitsProbe, "ResourceQuota in the agent's namespace that shows which kinds Kubernetes counts already")
	fs.BoolVar(&o.bindSlices, "bind-slices", o.bindSlices, "limit Liqo's RoleBindings in offloaded namespaces to the identities of live slices")
	fs.StringSliceVar(&o.guardPolicies, "guard-policies", o.guardPolicies, "ValidatingAdmissionPolicyBindings that must be in force for condition Guarded, each with a policy of its name or as NAME=POLICY")
	fs.BoolVar(&o.forbidHostAccess, "forbid-host-access", o.forbidHostAccess, "refuse consumers' pods with host namespaces, hostPath volumes or privileged containers; requires webhooks")
	fs.StringVar(&o.hold, "hold", o.hold, "how to keep reserved capacity that is not in use: Ledger (count it as taken) or Placeholder (also run placeholder pods in POD_NAMESPACE, which this cluster's own pods cannot preempt)")
	fs.StringVar(&o.placeholderImage, "placeholder-image", o.placeholderImage, "image of the placeholder pods; it must do nothing")
	fs.StringVar(&o.placeholderClass, "placeholder-priority-class", o.placeholderClass, "PriorityClass of the placeholder pods; with --hold=Placeholder")

	fs.BoolVar(&o.provisioningRequests, "provisioning-requests", o.provisioningRequests, "serve ProvisioningRequests of class reserve.broker.fluidos.eu")
	fs.BoolVar(&o.capacityBuffers, "capacity-buffers", o.capacityBuffers, "serve CapacityBuffers of strategy reserve.broker.fluidos.eu/borrowed")
	fs.BoolVar(&o.burstPolicies, "burst-policies", o.burstPolicies, "serve BurstPolicies")

	fs.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress, "address of /healthz and /readyz")
	o.metrics.Bind(fs)
	fs.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "elect a leader among replicas")

	o.tracing.Bind(fs)
	o.console.Bind(fs)
	o.webhook.Bind(fs)

	std := flag.NewFlagSet("", flag.ContinueOnError)
	o.zap.BindFlags(std)
	fs.AddGoFlagSet(std)
	cluster.BindKubeconfig(fs)
}

// bindAdvertisement binds the flags that name the Advertisement.
func (o *options) bindAdvertisement(fs *pflag.FlagSet) {
	fs.StringVar(&o.advertisementName, "advertisement-name", o.advertisementName, "name of the Advertisement")
	fs.StringVar(&o.advertisementNamespace, "advertisement-namespace", o.advertisementNamespace, "namespace of the Advertisement")
}

// bindMailboxes binds the flags for reaching the broker through the API server of its cluster.
func (o *options) bindMailboxes(fs *pflag.FlagSet) {
	fs.StringVar(&o.brokerKubeconfig, "broker-kubeconfig", o.brokerKubeconfig, "kubeconfig of the broker's cluster, with --broker-transport=kubernetes")
	fs.StringVar(&o.brokerNamespace, "broker-namespace", o.brokerNamespace, "this cluster's namespace in the broker's cluster")
}

// completeOptions validates the flags, and sets those that follow from other flags. It needs no
// access to a cluster.
func (o *options) completeOptions() error {
	if err := o.completeTransport(); err != nil {
		return err
	}
	if o.certPath == "" {
		return errors.New("--broker-cert-path is missing: agents authenticate to each other with certificates, with every transport; set it to the folder with tls.crt, tls.key and ca.crt, or to one to fill with --identity-secret")
	}
	if slices.Contains([]string{o.advertisementName, o.advertisementNamespace, o.instructionNamespace, o.liqoNamespace}, "") {
		return errors.New("--advertisement-name, --advertisement-namespace, --instruction-namespace and --liqo-namespace may not be empty: leave them out to use their defaults")
	}
	if err := o.checkEnrolment(); err != nil {
		return err
	}
	if o.peeringMode == "" && o.kubeconfigsDir != "" {
		o.peeringMode = peeringKubeconfig
	}
	switch o.peeringMode {
	case peeringKubeconfig:
		if o.kubeconfigsDir == "" {
			return errors.New("--peering-mode=kubeconfig: --kubeconfigs-dir is missing: give the folder with <cluster-id>.kubeconfig")
		}
	case peeringBrokered, peeringNone:
		if o.kubeconfigsDir != "" {
			return fmt.Errorf("--kubeconfigs-dir is not read with --peering-mode=%s: leave it out, or use --peering-mode=kubeconfig", o.peeringMode)
		}
	}
	if o.networking == networkingEnabled && o.peeringMode == peeringNone {
		return errors.New("--networking=enabled: --peering-mode=none does not peer: leave one of them out")
	}
	if err := errors.Join(o.checkChoices(), o.checkTimes(), o.checkLifetime(), o.checkHold(), o.completeLimits()); err != nil {
		return err
	}
	return o.checkNodeLabels()
}

// checkChoices refuses values of flags that are none of the possible ones.
func (o *options) checkChoices() error {
	for _, c := range []struct {
		flag, value string
		choices     []string
	}{
		{"--peering-mode", o.peeringMode, []string{peeringBrokered, peeringKubeconfig, peeringNone, ""}},
		{"--networking", o.networking, []string{networkingAuto, networkingEnabled, networkingDisabled}},
		{"--gateway-service-type", o.gatewayServiceType, []string{string(corev1.ServiceTypeLoadBalancer), string(corev1.ServiceTypeNodePort), string(corev1.ServiceTypeClusterIP)}},
		{"--actor", o.actor, []string{actorReported, actorHidden}},
		{"--hold", o.hold, []string{string(agentv1alpha1.HoldLedger), string(agentv1alpha1.HoldPlaceholder)}},
	} {
		if !slices.Contains(c.choices, c.value) {
			return fmt.Errorf("%s: %q is unknown, use one of %q", c.flag, c.value, c.choices)
		}
	}
	return nil
}

// maxNodeLabels is how many node labels a cluster may publish. The CRD of the Advertisement has
// the same limit.
const maxNodeLabels = 16

// checkNodeLabels returns an error for node labels that the CRD of the Advertisement does not
// accept. With such labels, the agent could not write its Advertisement.
func (o *options) checkNodeLabels() error {
	keys := map[string]string{}
	for _, key := range o.nodeLabels {
		keys[key] = ""
	}
	return requirements.CheckLabels("--node-labels", keys, maxNodeLabels)
}

// checkLifetime checks --peer-certificate-lifetime. 10 minutes is the shortest time that a
// CertificateSigningRequest may ask for. One year is the longest that kube-controller-manager signs
// by default.
func (o *options) checkLifetime() error {
	const least, most = 10 * time.Minute, 365 * 24 * time.Hour
	if o.peerLifetime < least || o.peerLifetime > most {
		return fmt.Errorf("--peer-certificate-lifetime: %s is not between %s and %s", o.peerLifetime, least, most)
	}
	return nil
}

// completeLimits parses the flags that limit the objects of peers.
func (o *options) completeLimits() error {
	for flag, read := range map[string]struct {
		given map[string]string
		into  *corev1.ResourceList
	}{
		"--offloaded-object-limits": {o.offloadedLimits, &o.objectLimits.Offloaded},
		"--tenant-object-limits":    {o.tenantLimits, &o.objectLimits.Tenant},
	} {
		limits := corev1.ResourceList{}
		for name, text := range read.given {
			limit, err := resource.ParseQuantity(text)
			if err != nil || limit.Sign() < 0 {
				return fmt.Errorf("%s: %s=%q is not an amount: use a number such as 100 or 100Gi", flag, name, text)
			}
			limits[corev1.ResourceName(name)] = limit
		}
		*read.into = limits
	}
	if o.objectLimitsProbe == "" {
		return nil
	}
	if o.podNamespace == "" {
		return errors.New("--object-limits-probe: POD_NAMESPACE is not set in the environment: set it to the namespace of the agent's pods")
	}
	o.objectLimits.Probe = types.NamespacedName{Namespace: o.podNamespace, Name: o.objectLimitsProbe}
	return nil
}

// completeTransport chooses the transport to the broker, and checks the flags for it.
func (o *options) completeTransport() error {
	if o.brokerKubeconfig != "" {
		o.brokerTransport = transportKubernetes
	}
	switch o.brokerTransport {
	case transportHTTP:
		if len(o.brokerURLs) == 0 && o.identitySecret == "" {
			return errors.New("--broker-url is missing: give the broker's address, for example https://broker.example.com:8443")
		}
	case transportKubernetes:
		if o.brokerKubeconfig == "" {
			return errors.New("--broker-kubeconfig is missing: give a kubeconfig of the broker's cluster, or use --broker-transport=http")
		}
		if len(o.brokerURLs) > 0 {
			return errors.New("--broker-url and --broker-kubeconfig are two ways to one broker: leave one out")
		}
	default:
		return fmt.Errorf("--broker-transport: %q is unknown, use http or kubernetes", o.brokerTransport)
	}
	return nil
}

// checkTimes refuses intervals and deadlines that are too short to work.
func (o *options) checkTimes() error {
	if o.advertisementInterval < time.Second {
		return fmt.Errorf("--advertisement-requeue-interval: %s is too short, the least is 1s", o.advertisementInterval)
	}
	if o.pollInterval < 100*time.Millisecond {
		return fmt.Errorf("--instruction-poll-interval: %s is too short, the least is 100ms", o.pollInterval)
	}
	if o.expiryNotice < 0 {
		return fmt.Errorf("--expiry-notice: %s is negative, use 0 for no notice", o.expiryNotice)
	}
	if o.drainTimeout < 0 {
		return fmt.Errorf("--drain-timeout: %s is negative, use 0 to delete pods without evicting them first", o.drainTimeout)
	}
	return errors.Join(checkTimeout("--reclaim-timeout", o.reclaimTimeout), checkTimeout("--give-up-timeout", o.giveUpTimeout))
}

// Values of --actor.
const (
	actorReported = "Reported"
	actorHidden   = "Hidden"
)

// reclaimWarning returns a warning if the agent would take a placement back before its consumer has
// drained the pods, else "". The drain timeout of the consumers is not known here; the warning
// assumes that it is the same as this agent's.
func (o *options) reclaimWarning() string {
	if o.reclaimTimeout == 0 || o.reclaimTimeout > o.drainTimeout {
		return ""
	}
	return fmt.Sprintf("--reclaim-timeout %s is not longer than --drain-timeout %s: consumers with the same drain timeout lose pods while they drain; make it longer, at least by the longest grace period of pods",
		o.reclaimTimeout, o.drainTimeout)
}

// checkTimeout returns an error for a timeout below one second. 0 is allowed and means no limit.
func checkTimeout(flag string, d time.Duration) error {
	if d != 0 && d < time.Second {
		return fmt.Errorf("%s: %s is too short, the least is 1s, and 0 means no limit", flag, d)
	}
	return nil
}

// checkHold checks what placeholder pods need.
func (o *options) checkHold() error {
	switch {
	case o.hold != string(agentv1alpha1.HoldPlaceholder):
	case o.podNamespace == "":
		return errors.New("--hold=Placeholder: POD_NAMESPACE is not set in the environment: set it to the namespace of the placeholders")
	case o.placeholderClass == "":
		return errors.New("--placeholder-priority-class is missing: give a PriorityClass of the value of ordinary pods, with preemptionPolicy Never")
	case o.placeholderImage == "":
		return errors.New("--placeholder-image is missing: give an image that does nothing, for example registry.k8s.io/pause:3.10.1")
	}
	return nil
}

// checkElastic refuses groups of nodes that the flags rule out: without placeholder pods, no autoscaler
// creates them; without the webhook, tainted nodes are not lent; and the CRD of the Advertisement limits the
// labels of nodes.
func (o *options) checkElastic(c *configuration.Configuration) error {
	if len(c.Offer.Groups) == 0 {
		return nil
	}
	var wrong []error
	if o.hold != string(agentv1alpha1.HoldPlaceholder) || o.peeringMode == peeringNone {
		wrong = append(wrong, errors.New("offer.elastic: new nodes need placeholder pods: set --hold=Placeholder (hold.mode in the chart) and let the agent peer, or remove offer.elastic"))
	}
	keys := map[string]string{}
	for _, key := range o.nodeLabels {
		keys[key] = ""
	}
	for i := range c.Offer.Groups {
		g := &c.Offer.Groups[i]
		for _, t := range g.Taints {
			if !o.webhook.Enabled() && !quantity.IsExtended(corev1.ResourceName(t.Key)) {
				wrong = append(wrong, fmt.Errorf("offer.elastic[%d].taints: nodes of group %q with taint %s are not lent while the agent's webhook is off: set webhook.enabled=true in the chart, or remove the group", i, g.Name, t.Key))
			}
		}
		maps.Copy(keys, g.Labels)
	}
	if len(keys) > maxNodeLabels {
		wrong = append(wrong, fmt.Errorf("offer.elastic: with the labels of its groups and --node-labels (cluster.nodeLabels in the chart), %d labels of nodes are published, at most %d can be: %s: remove some of either",
			len(keys), maxNodeLabels, strings.Join(slices.Sorted(maps.Keys(keys)), ", ")))
	}
	return errors.Join(wrong...)
}

// readEnrolmentToken replaces the reference in --enrolment-token by the token. The flag does not
// accept the token itself, because everybody who can list processes or read the Pod sees the
// command line. An empty or missing file or variable means that there is no token: the Secret of a
// used token may have been deleted.
func (o *options) readEnrolmentToken() error {
	if file, ok := strings.CutPrefix(o.enrolmentToken, "@"); ok {
		content, err := os.ReadFile(file) //nolint:gosec // the operator names the file
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("--enrolment-token: %w", err)
		}
		o.enrolmentToken = strings.TrimSpace(string(content))
		return nil
	}
	if name, ok := strings.CutPrefix(o.enrolmentToken, "env:"); ok {
		o.enrolmentToken = strings.TrimSpace(os.Getenv(name))
		return nil
	}
	if o.enrolmentToken != "" {
		return errors.New("--enrolment-token: others can read a token on the command line: write it to a file and give @FILE, or to an environment variable and give env:NAME")
	}
	return nil
}

func (o *options) checkEnrolment() error {
	if err := o.readEnrolmentToken(); err != nil {
		return err
	}
	switch {
	case o.identitySecret == "" && (o.enrolmentURL != "" || o.enrolmentToken != "" || len(o.enrolmentCAHashes) > 0):
		return errors.New("--identity-secret is missing: an agent that enrols needs a Secret to keep its key in")
	case o.identitySecret != "" && o.podNamespace == "":
		return errors.New("--identity-secret: POD_NAMESPACE is not set in the environment: set it to the namespace of the Secret")
	case o.enrolmentURL == "" && (o.enrolmentToken != "" || len(o.enrolmentCAHashes) > 0):
		return errors.New("--enrolment-url is missing: copy it from the output of broker enrol")
	case o.enrolmentURL != "" && len(o.enrolmentCAHashes) == 0:
		return errors.New("--enrolment-ca-hash is missing: copy it from the output of broker enrol; the agent authenticates the broker with it")
	}
	return nil
}
