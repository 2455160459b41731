package configuration

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/config"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const head = "apiVersion: agent.fluidos.eu/v1alpha1\nkind: AgentConfiguration\n"

// noFile is the read function of a test without further files: it finds none.
func noFile(path string) ([]byte, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// someFiles serves the files named in tests.
func someFiles(path string) ([]byte, error) {
	text, ok := map[string]string{
		"prices": "currency: EUR\ncpuCost: 0.5\nresourceCosts: {nvidia.com/gpu: 1}\n", "empty": "# none yet",
		"typo": "currency: EUR\ncpucost: 1\n", "wrong": "currency: EUR\ncpuCost: cheap\n", "chain": "file: prices\n",
	}[path]
	if !ok {
		return noFile(path)
	}
	return []byte(text), nil
}

func TestPricesOfAnotherFile(t *testing.T) {
	want := &brokerv1alpha1.Cost{
		CPUCost: "0.5", Currency: "EUR", ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{"nvidia.com/gpu": "1"},
	}
	for file, want := range map[string]*brokerv1alpha1.Cost{"prices": want, "empty": nil} {
		c, err := Parse([]byte(head+"prices: {file: "+file+"}\n"), someFiles)
		runtest.Check(t, err)
		if diff := cmp.Diff(want, c.Prices); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func TestPricesOfNodes(t *testing.T) {
	const ofLabels, ofOpenCost = "nodeLabels: {cpuCost: example.com/core, resourceCosts: {nvidia.com/gpu: gpu-price}}", "openCost: {url: 'http://opencost.opencost:9003/metrics'}"
	keys := map[corev1.ResourceName]string{"cpu": "example.com/core", "nvidia.com/gpu": "gpu-price"}
	cost := &brokerv1alpha1.Cost{Currency: "EUR", StorageCost: "0.1"}
	for text, want := range map[string]*Configuration{
		ofLabels:   {Prices: cost, PriceLabels: keys},
		ofOpenCost: {Prices: cost, OpenCost: "http://opencost.opencost:9003/metrics"},
	} {
		inline := head + "prices: {currency: EUR, storageCost: '0.1', " + text + "}\n"
		elsewhere := func(string) ([]byte, error) { return []byte("currency: EUR\nstorageCost: 0.1\n" + text), nil }
		for _, file := range []string{inline, head + "prices: {file: prices}\n"} {
			got, err := Parse([]byte(file), elsewhere)
			runtest.Check(t, err)
			got.Nodes, got.Offer = nil, offering.Rules{}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		}
	}
}

// The sample shows the other sources of prices as comments, one line each.
func TestSampleShowsOtherPriceSources(t *testing.T) {
	text := string(config.AgentConfiguration)
	before, _, _ := strings.Cut(text, "prices:\n")
	found := 0
	for _, source := range regexp.MustCompile(`(?m)^  # (file|nodeLabels|openCost): .*$`).FindAllString(text, -1) {
		found++
		source = strings.Replace(source, "# ", "", 1)
		if !strings.Contains(source, "file:") {
			source += "\n  currency: EUR"
		}
		elsewhere := func(string) ([]byte, error) { return []byte("currency: EUR"), nil }
		if _, err := Parse([]byte(before+"prices:\n"+source+"\n"), elsewhere); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	if found != 3 {
		t.Errorf("the sample shows %d of 3", found)
	}
}

func TestSampleSetsEveryKey(t *testing.T) {
	text := config.AgentConfiguration
	c, err := Parse(text, noFile)
	runtest.Check(t, err)
	if !c.Nodes.Matches(labels.Set{"pool": "lend"}) || c.Nodes.Matches(labels.Set{"pool": "lend", "spot": ""}) || c.Nodes.Matches(labels.Set{}) {
		t.Errorf("nodes %q", c.Nodes)
	}
	c.Nodes = nil
	want := &Configuration{
		Region: "eu-south", Zone: "eu-south-1", Labels: map[string]string{"tier": "gold"}, Claims: map[string]string{"availability": "99.9"},
		Taints: []brokerv1alpha1.Taint{{Key: "dedicated", Value: "batch", Effect: "NoSchedule"}},
		Offer: offering.Rules{
			Withheld:      offering.Percentages{All: 20, Of: map[corev1.ResourceName]int64{"cpu": 50}},
			HeadroomShare: offering.Percentages{All: 10, Of: map[corev1.ResourceName]int64{"memory": 0}},
			Headroom:      quantity.Amounts{"memory": 8 << 30},
			Cap:           quantity.Amounts{"cpu": 40000, "nvidia.com/gpu": 2},
			Minimum:       quantity.Amounts{"cpu": 1000},
			Step:          quantity.Amounts{"cpu": 500, "memory": 1 << 30},
			Ratios:        quantity.Ratios{"cpu": 150},
		},
		Prices: &brokerv1alpha1.Cost{
			CPUCost: "0.032", MemoryCost: "0.0040", StorageCost: "0.0001", EgressCost: "0.02", Currency: "EUR",
			ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{"nvidia.com/gpu": "0.95"},
		},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, key := range keys(reflect.TypeFor[file]()) {
		if !regexp.MustCompile(`(?m)^\s*(# )?(.*[{])?` + key + `:`).Match(text) {
			t.Errorf("the sample has no %s", key)
		}
	}
}

// docs/configuration.md lists every key of the file.
func TestPageListsEveryKey(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	runtest.Check(t, err)
	for _, key := range keys(reflect.TypeFor[file]()) {
		if !strings.Contains(string(page), "`"+key+"`") && !strings.Contains(string(page), "."+key+"`") {
			t.Errorf("docs/configuration.md says nothing of %s", key)
		}
	}
}

// keys returns all keys of a file whose content has the type in the parameter of, at every depth.
func keys(of reflect.Type) []string {
	if of.Kind() == reflect.Map || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for field := range of.Fields() {
		out = append(append(out, field.Tag.Get("yaml")), keys(field.Type)...)
	}
	return out
}

func TestParseEmptyFileLendsEverything(t *testing.T) {
	c, err := Parse([]byte(head), noFile)
	runtest.Check(t, err)
	if !c.Nodes.Empty() || c.Prices != nil || c.Labels != nil {
		t.Errorf("got %+v", c)
	}
	there := quantity.Amounts{"cpu": 10}
	if got := c.Offer.Lendable(there, nil); !got.Equal(there) {
		t.Errorf("%v is lent", got)
	}
}

func TestParseErrorNamesFieldAndRemedy(t *testing.T) {
	cases := map[string]struct {
		text string
		want []string
	}{
		"an empty file":                            {text: "", want: []string{"the file is empty", APIVersion}},
		"a comment":                                {text: "# later", want: []string{"the file is empty"}},
		"no version":                               {text: "kind: AgentConfiguration", want: []string{`apiVersion: ""`, "use " + APIVersion}},
		"another version":                          {text: "apiVersion: agent.fluidos.eu/v2\nkind: AgentConfiguration", want: []string{`apiVersion: "agent.fluidos.eu/v2"`}},
		"another kind":                             {text: "apiVersion: agent.fluidos.eu/v1alpha1\nkind: BrokerConfig", want: []string{`kind: "BrokerConfig"`, "use AgentConfiguration"}},
		"two documents":                            {text: head + "---\n" + head, want: []string{"more than one document"}},
		"no YAML":                                  {text: head + "offer: {", want: []string{"line 3"}},
		"an unknown key":                           {text: head + "offer:\n  shares: 80\n", want: []string{`line 4: unknown key "shares"`}},
		"keys of another case":                     {text: head + "Offer: {}\n", want: []string{`line 3: unknown key "Offer"`}},
		"several unknown keys":                     {text: head + "offer:\n  shares: 80\nprice: 1\n", want: []string{`line 4: unknown key "shares"`, `line 5: unknown key "price"`}},
		"a key twice":                              {text: head + "offer:\n  share: 80\n  share: 70\n", want: []string{`line 5: key "share" is already set in line 4`}},
		"a resource twice":                         {text: head + "offer:\n  resources:\n    cpu: {cap: 1}\n    cpu: {cap: 2}\n", want: []string{`line 6: key "cpu"`}},
		"a value where keys belong":                {text: head + "offer: much\n", want: []string{"line 3: keys with values belong here"}},
		"keys where a value belongs":               {text: head + "offer:\n  share: {cpu: 50}\n", want: []string{"line 4: one value belongs here"}},
		"a malformed share":                        {text: head + "offer: {share: most}\n", want: []string{`offer.share: "most" is not a percentage`, "from 0 to 100"}},
		"a share of more than all":                 {text: head + "offer: {share: 101%}\n", want: []string{`offer.share: "101%"`}},
		"a share below nothing":                    {text: head + "offer: {share: -1}\n", want: []string{`offer.share: "-1"`}},
		"an amount as headroom of all":             {text: head + "offer: {headroom: 2Gi}\n", want: []string{`offer.headroom: "2Gi" is not a percentage`}},
		"a malformed headroom":                     {text: head + "offer: {resources: {cpu: {headroom: some}}}\n", want: []string{"offer.resources.cpu.headroom", `"some" is not a quantity`}},
		"a malformed cap":                          {text: head + "offer: {resources: {memory: {cap: 4 GB}}}\n", want: []string{"offer.resources.memory.cap", `"4 GB" is not a quantity`}},
		"a cap below nothing":                      {text: head + "offer: {resources: {memory: {cap: -4Gi}}}\n", want: []string{"offer.resources.memory.cap", "is negative"}},
		"a quantity beyond reason":                 {text: head + "offer: {resources: {memory: {step: 1e2147483647}}}\n", want: []string{"offer.resources.memory.step"}},
		"a part of a device":                       {text: head + "offer: {resources: {nvidia.com/gpu: {minimum: 500m}}}\n", want: []string{"offer.resources.nvidia.com/gpu.minimum", "whole number"}},
		"a cap below the least":                    {text: head + "offer: {resources: {cpu: {cap: 1, minimum: 2}}}\n", want: []string{"offer.resources.cpu.cap: 1 is less than minimum or step"}},
		"an unknown resource":                      {text: head + "offer: {resources: {gpu: {cap: 1}}}\n", want: []string{`offer.resources.gpu: unknown resource "gpu"`}},
		"a malformed ratio":                        {text: head + "offer: {resources: {cpu: {overSubscription: 150%}}}\n", want: []string{"offer.resources.cpu.overSubscription", `"150%" is not a ratio`}},
		"over-subscribed devices":                  {text: head + "offer: {resources: {nvidia.com/gpu: {overSubscription: 2}}}\n", want: []string{"cannot be over-subscribed"}},
		"a malformed selector":                     {text: head + "offer: {nodeSelector: 'a in b'}\n", want: []string{`offer.nodeSelector: "a in b" is not a selector`, "pool=lend"}},
		"a taint without effect":                   {text: head + "offer: {taints: [dedicated=gpu]}\n", want: []string{`offer.taints: "dedicated=gpu": taint dedicated has no effect`, "dedicated=gpu:NoSchedule"}},
		"a taint of Kubernetes":                    {text: head + "offer: {taints: ['node.kubernetes.io/unschedulable:NoSchedule']}\n", want: []string{"offer.taints", "never offered"}},
		"an invalid region":                        {text: head + "cluster: {region: 'eu south'}\n", want: []string{`cluster.region: "eu south"`}},
		"an invalid label":                         {text: head + "cluster: {labels: {'a b': c}}\n", want: []string{`cluster.labels: "a b" is not a label key`}},
		"an invalid claim":                         {text: head + "cluster: {claims: {'a b': c}}\n", want: []string{`cluster.claims: "a b" is not a claim name`}},
		"a malformed price":                        {text: head + "prices: {currency: EUR, cpuCost: cheap}\n", want: []string{`prices.cpuCost: "cheap" is not a price`}},
		"prices without a currency":                {text: head + "prices: {cpuCost: 1}\n", want: []string{"prices.currency is missing"}},
		"a price of an unknown resource":           {text: head + "prices: {currency: EUR, resourceCosts: {gpu: 1}}\n", want: []string{`prices.resourceCosts: unknown resource "gpu"`}},
		"prices of two sources":                    {text: head + "prices: {currency: EUR, memoryCost: 1, nodeLabels: {cpuCost: a}}\n", want: []string{"prices.memoryCost and prices.nodeLabels exclude each other"}},
		"prices of three sources":                  {text: head + "prices: {currency: EUR, resourceCosts: {a/b: 1}, nodeLabels: {cpuCost: a}, openCost: {url: 'http://a'}}\n", want: []string{"prices.resourceCosts and prices.nodeLabels and prices.openCost exclude"}},
		"a file beside another source":             {text: head + "prices: {file: prices, openCost: {url: 'http://a'}}\n", want: []string{"prices.file", "cannot be combined"}},
		"prices of nodes without currency":         {text: head + "prices: {nodeLabels: {cpuCost: a}}\n", want: []string{"prices.currency is missing"}},
		"labels of nothing":                        {text: head + "prices: {currency: EUR, nodeLabels: {}}\n", want: []string{"prices.nodeLabels: no label is named"}},
		"an invalid label key":                     {text: head + "prices: {currency: EUR, nodeLabels: {cpuCost: 'a b'}}\n", want: []string{`prices.nodeLabels.cpuCost: "a b" is not a label key`}},
		"a label of no resource":                   {text: head + "prices: {currency: EUR, nodeLabels: {resourceCosts: {a/b/c: x}}}\n", want: []string{"prices.nodeLabels.resourceCosts.a/b/c"}},
		"cores among other resources":              {text: head + "prices: {currency: EUR, nodeLabels: {resourceCosts: {cpu: x}}}\n", want: []string{"prices.nodeLabels.resourceCosts.cpu", "cpuCost"}},
		"OpenCost nowhere":                         {text: head + "prices: {currency: EUR, openCost: {}}\n", want: []string{"prices.openCost.url: not a URL of metrics", "http://opencost.opencost:9003/metrics"}},
		"OpenCost by a name alone":                 {text: head + "prices: {currency: EUR, openCost: {url: opencost}}\n", want: []string{"prices.openCost.url"}},
		"OpenCost in a file":                       {text: head + "prices: {currency: EUR, openCost: {url: 'file:///etc/passwd'}}\n", want: []string{"prices.openCost.url"}},
		"OpenCost with a password":                 {text: head + "prices: {currency: EUR, openCost: {url: 'http://me:secret@opencost'}}\n", want: []string{"prices.openCost.url", "without user and password"}},
		"prices here and elsewhere":                {text: head + "prices: {file: prices, currency: EUR}\n", want: []string{"prices.file", "cannot be combined"}},
		"prices that are nowhere":                  {text: head + "prices: {file: /nowhere}\n", want: []string{"prices.file: open /nowhere", "create the file"}},
		"an unknown price elsewhere":               {text: head + "prices: {file: typo}\n", want: []string{`prices.file: typo: line 2: unknown key "cpucost"`}},
		"a wrong price elsewhere":                  {text: head + "prices: {file: wrong}\n", want: []string{`wrong: cpuCost: "cheap" is not a price`}},
		"prices that are elsewhere, and elsewhere": {text: head + "prices: {file: chain}\n", want: []string{"prices.file: chain: file: it refers to another file"}},
		"everything at once":                       {text: head + "offer: {share: most}\nprices: {currency: euro}\n", want: []string{"offer.share", `prices.currency: "euro"`}},
		"a file beyond reason":                     {text: head + strings.Repeat("#", maxSize), want: []string{"limit of 1048576"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := Parse([]byte(tc.text), someFiles)
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q says nothing of %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q shows what may be secret", err)
			}
			if strings.Contains(err.Error(), "configuration.") && !strings.Contains(err.Error(), "docs/configuration.") {
				t.Errorf("%q names a type of Go", err)
			}
		})
	}
}

func TestOfferedTaints(t *testing.T) {
	c, err := Parse([]byte(head+"offer: {taints: ['dedicated=gpu:NoSchedule', 'example.com/spot:NoExecute']}\n"), noFile)
	runtest.Check(t, err)
	want := []brokerv1alpha1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}, {Key: "example.com/spot", Effect: "NoExecute"}}
	if diff := cmp.Diff(want, c.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

// Every file is refused, or yields usable rules.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("../../../config/samples/*/*.yaml")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no sample to begin with: %v", err)
	}
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		runtest.Check(f, err)
		f.Add(text)
	}
	for _, text := range []string{
		"", head, head + "offer: {share: 0%, headroom: 100, nodeSelector: '!spot'}", head + "offer: {share: 1, share: 2}",
		head + "offer: {resources: {cpu: {cap: 1e9, step: 3, minimum: 1u, overSubscription: 9.99}}}",
		head + "a: &a [x, x]\nb: [*a, *a]", head + "prices: {currency: EUR, resourceCosts: {a/b: 1}}", "---\n" + head + "---\n",
	} {
		f.Add([]byte(text))
	}
	there := quantity.Amounts{"cpu": 64000, "memory": 1 << 38, "pods": 110, "nvidia.com/gpu": 8}
	own := quantity.Amounts{"cpu": 6000, "memory": 1 << 33, "pods": 20}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text, noFile)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		again, err := Parse(text, noFile)
		if diff := cmp.Diff(c.Offer, again.Offer); err != nil || diff != "" {
			t.Fatalf("another time it means something else (%v):\n%s", err, diff)
		}
		runtest.Check(t, c.Offer.Ratios.Check())
		free := there.Stretched(c.Offer.Ratios).Sub(own)
		for name, lent := range c.Offer.Lendable(there, own) {
			if lent < 0 || lent > free[name] {
				t.Fatalf("%d of %s is lent, %d is free: %+v", lent, name, free[name], c.Offer)
			}
		}
		c.Nodes.Matches(labels.Set{"pool": "lend"})
	})
}
