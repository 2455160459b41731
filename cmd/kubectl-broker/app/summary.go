package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

const (
	// rowsPage is how many rows one answer of the API server contains.
	rowsPage = 10000
	// mostDetails is how many Reservations are read one by one. If more must be read, reading the whole list is faster.
	mostDetails = 500
	// concurrentReads is how many Reservations are read at the same time.
	concurrentReads = 16
)

// inOrder matches the message of a Reservation without a problem. The broker writes another message for a notice, a
// recall, a refused change or a lost node. If the message of a Reservation without a problem does not match, the
// object is read, which only costs time.
var inOrder = regexp.MustCompile(`^virtual node \S+ on \S+ is Ready$`)

// row is a Reservation in the form that kubectl get prints. The API server makes it from the printer columns. A row
// has a tenth of the object's size, and the API server and this program need a tenth of the time for it.
type row struct {
	Cells  []any `json:"cells"`
	Object struct {
		Metadata client.ObjectKey `json:"metadata"`
	} `json:"object"`
}

type rowTable struct {
	Metadata metav1.ListMeta                `json:"metadata"`
	Columns  []metav1.TableColumnDefinition `json:"columnDefinitions"`
	Rows     []row                          `json:"rows"`
}

var errNoColumns = errors.New("the Reservations have other columns")

// readSummary reads the Reservations of a namespace. It reads a whole Reservation only if the Reservation may need
// attention, and otherwise only the fields in its row.
func (g *gatherer) readSummary(ctx context.Context, namespace string) error {
	found, details, err := g.readRows(ctx, namespace)
	if err != nil && !errors.Is(err, errNoColumns) {
		return err
	}
	if errors.Is(err, errNoColumns) || len(details) > mostDetails {
		return g.listPages(ctx, namespace, &view.Kind{List: &brokerv1alpha1.ReservationList{}})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentReads)
	gone := make([]bool, len(found))
	for _, i := range details {
		group.Go(func() error {
			err := g.Get(ctx, client.ObjectKeyFromObject(found[i]), found[i])
			gone[i] = apierrors.IsNotFound(err)
			return client.IgnoreNotFound(err)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range found {
		if !gone[i] {
			g.snapshot.Broker.Reservations = append(g.snapshot.Broker.Reservations, found[i])
		}
	}
	return nil
}

// readRows returns a Reservation for every row, and the indices of those that must be read whole.
func (g *gatherer) readRows(ctx context.Context, namespace string) (found []*brokerv1alpha1.Reservation, details []int, err error) {
	config := rest.CopyConfig(g.config)
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	path := "/apis/" + brokerv1alpha1.GroupVersion.String()
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	for next := ""; ; {
		text, err := c.Get().AbsPath(path+"/reservations").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			Param("includeObject", "Metadata").Param("limit", fmt.Sprint(rowsPage)).Param("continue", next).DoRaw(ctx)
		if err != nil {
			return nil, nil, err
		}
		var table rowTable
		if err := json.Unmarshal(text, &table); err != nil {
			return nil, nil, fmt.Errorf("reading the rows of Reservations: %w", err)
		}
		reservations, ordered, err := table.toReservations()
		if err != nil {
			return nil, nil, err
		}
		for i := range reservations {
			if !ordered[i] {
				details = append(details, len(found)+i)
			}
		}
		found = append(found, reservations...)
		if next = table.Metadata.Continue; next == "" {
			return found, details, nil
		}
	}
}

// toReservations returns a Reservation for each row, and whether it evidently has no problem.
func (t *rowTable) toReservations() (found []*brokerv1alpha1.Reservation, ordered []bool, err error) {
	column := func(name string) int {
		return slices.IndexFunc(t.Columns, func(c metav1.TableColumnDefinition) bool { return c.Name == name })
	}
	phase, requester, provider, message := column("Phase"), column("Requester"), column("Provider"), column("Message")
	if min(phase, requester, provider, message) < 0 {
		return nil, nil, errNoColumns
	}
	for i := range t.Rows {
		cell := func(column int) string {
			if column >= len(t.Rows[i].Cells) {
				return ""
			}
			text, _ := t.Rows[i].Cells[column].(string) // an empty cell is nil
			return text
		}
		name := t.Rows[i].Object.Metadata
		r := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		r.Spec.RequesterID, r.Status.TargetClusterID = cell(requester), cell(provider)
		r.Status.Phase = brokerv1alpha1.ReservationPhase(cell(phase))
		active := r.Status.Phase == brokerv1alpha1.ReservationActive && inOrder.MatchString(cell(message))
		found = append(found, r)
		ordered = append(ordered, active || r.Status.Phase == brokerv1alpha1.ReservationReleased)
	}
	return found, ordered, nil
}
