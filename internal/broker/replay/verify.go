package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// Verified is the result of VerifyStored for the stored periods of the accounts, or for the stored batches of the
// history.
type Verified struct {
	// Proved is the number of objects whose rows match a hash in the journal, or in an object that is
	// itself proved.
	Proved int
	// Unproved lists the objects that no hash covers: they were stored before the journal began, or the
	// later object that names them is missing or was edited.
	Unproved []string
	// Wrong has a sentence for each object that is missing, was edited, or was added.
	Wrong []string
}

// VerifyStored compares the stored periods of the accounts and the stored batches of the history with
// the journal. The journal names the newest batch and the newest period of each span by its hash, and
// each of them contains the hash of the one before it. VerifyStored changes nothing. It returns an
// error only if the journal or an object cannot be read.
func VerifyStored(ctx context.Context, store journal.Store, name string) (periods, batches *Verified, err error) {
	stored := map[accounts.Span][]string{}
	for _, span := range accounts.Spans { // the objects are listed before the journal is read, so that none is listed that was recorded only after the journal was read
		if stored[span], err = storedPeriods(ctx, store, name, span); err != nil {
			return nil, nil, err
		}
	}
	storedInHistory, err := storedBatches(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	id, book, err := ReadStored(ctx, store, name)
	if err != nil {
		return nil, nil, err
	}
	periods, batches = &Verified{}, &Verified{}
	for _, span := range accounts.Spans {
		v := chainVerifier{chain: &periodChain{store, name, book}, found: periods, proved: map[string]bool{}}
		closed := book.Costs.Closed(span)
		if err := v.verify(ctx, link{closed.Period, closed.Hash}, closed.KeptFrom, stored[span]); err != nil {
			return nil, nil, err
		}
	}
	chain := &batchChain{store, name, id, book}
	v := chainVerifier{chain: chain, found: batches, proved: map[string]bool{}}
	closed := book.History.Closed()
	return periods, batches, v.verify(ctx, linkTo(&closed.Link), history.Name(closed.KeptFrom), chain.own(storedInHistory, batches))
}

// link names a stored object whose rows have a hash; zero for none.
type link struct{ name, hash string }

// chain is a sequence of immutable objects, each of which contains the hash of the rows of the one
// before. Their names sort like their order.
type chain interface {
	// describe returns a text for messages that says what the named object contains.
	describe(name string) string
	// read returns a link to the object before, and the hash of the rows of the object.
	read(ctx context.Context, name string) (before link, hash string, err error)
	// next returns a link to the object that follows the newest one that the journal names; zero if
	// there is none. It may be stored already, before the journal names it. name is the stored object
	// that the caller compares with the result.
	next(ctx context.Context, name string) link
}

// periodChain is the chain of the stored periods of one span, for example of all days.
type periodChain struct {
	store journal.Store
	name  string
	book  *Book
}

func (*periodChain) describe(name string) string { return "the period " + name }

func (c *periodChain) read(ctx context.Context, name string) (before link, hash string, err error) {
	p, hash, err := readStored(ctx, c.store, c.name, name)
	if err == nil && p.Before != nil {
		before = link{p.Before.Period, p.Before.Hash}
	}
	return before, hash, err
}

func (c *periodChain) next(context.Context, string) link {
	next, found := c.book.Costs.NextEnded()
	if !found {
		return link{}
	}
	text, err := next.Encode()
	if err != nil {
		return link{}
	}
	return link{next.Name(), accounts.Hash(text)}
}

// batchChain has the stored batches of the history of one journal.
type batchChain struct {
	store     journal.Store
	name      string
	journalID string
	book      *Book
}

func linkTo(l *history.Link) link {
	if l == nil || l.Batch == 0 {
		return link{}
	}
	return link{history.Name(l.Batch), l.Hash}
}

func (*batchChain) describe(name string) string {
	return "batch " + strings.TrimLeft(name, "0") + " of the history"
}

// own returns the names of those stored batches that belong to this journal. It records the batches of other journals
// as unproved in found.
func (c *batchChain) own(objects []string, found *Verified) []string {
	var own []string
	for _, object := range objects {
		name, isOwn := strings.CutPrefix(strings.TrimSuffix(object, "-0"), batchPrefix(c.name, c.journalID))
		if isOwn {
			own = append(own, name)
			continue
		}
		found.Unproved = append(found.Unproved, object)
	}
	return own
}

func (c *batchChain) read(ctx context.Context, name string) (before link, hash string, err error) {
	number, err := parseBatch(name)
	if err != nil {
		return link{}, "", err
	}
	b, hash, err := readBatch(ctx, c.store, c.name, c.journalID, number)
	if err == nil {
		before = linkTo(b.Before)
	}
	return before, hash, err
}

// next returns a link to the batch that the history will close next. It gives this batch as many rows
// as the stored batch has, because the journal does not say how many rows it will have.
func (c *batchChain) next(ctx context.Context, name string) link {
	number, err := parseBatch(name)
	if err != nil {
		return link{}
	}
	b, _, err := readBatch(ctx, c.store, c.name, c.journalID, number)
	if err != nil {
		return link{}
	}
	next, found := c.book.History.Next(len(b.Rows))
	if !found {
		return link{}
	}
	text, err := next.Encode()
	if err != nil {
		return link{}
	}
	return link{history.Name(next.Number), history.Hash(text)}
}

func parseBatch(name string) (number uint64, err error) {
	if _, err = fmt.Sscanf(name, "%d", &number); err != nil || history.Name(number) != name {
		return 0, fmt.Errorf("%q is no name of a batch, %w", name, errDamaged)
	}
	return number, nil
}

// chainVerifier verifies the stored objects of one chain. Each object names the one before it.
type chainVerifier struct {
	chain
	found  *Verified
	proved map[string]bool
	// first is the oldest object that the journal or a proved object names, "" if there is none.
	first string
}

// verify verifies all objects of the chain. newest is what the journal names, keptFrom the name of the oldest
// one that the broker keeps, and names are those of the stored objects.
func (v *chainVerifier) verify(ctx context.Context, newest link, keptFrom string, names []string) error {
	if err := v.walkBack(ctx, newest, keptFrom); err != nil {
		return err
	}
	return v.explainOthers(ctx, names)
}

// walkBack proves the objects from the newest to the oldest, until one is missing or damaged.
func (v *chainVerifier) walkBack(ctx context.Context, next link, keptFrom string) error {
	for next.name != "" {
		v.first = next.name
		before, hash, err := v.read(ctx, next.name)
		switch {
		case errors.Is(err, journal.ErrNotFound) && next.name < keptFrom:
			return nil // deleted, because its retention is over
		case errors.Is(err, journal.ErrNotFound):
			v.found.Wrong = append(v.found.Wrong, v.describe(next.name)+" is missing")
			return nil
		case errors.Is(err, errDamaged):
			v.found.Wrong = append(v.found.Wrong, err.Error())
			v.proved[next.name] = true // the error is reported once, so explainOthers must skip this object
			return nil
		case err != nil:
			return err
		case hash != next.hash:
			v.found.Wrong = append(v.found.Wrong, fmt.Sprintf("the rows of %s have hash %s, and the journal names %s: it was edited", v.describe(next.name), hash, next.hash))
			v.proved[next.name] = true
			return nil
		}
		v.proved[next.name] = true
		v.found.Proved++
		next = before
	}
	return nil
}

// explainOthers adds the stored objects that walkBack did not reach to Unproved or to Wrong, except the
// one that next names.
func (v *chainVerifier) explainOthers(ctx context.Context, names []string) error {
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return v.proved[name] }) {
		_, hash, err := v.read(ctx, name)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			continue // deleted meanwhile
		case errors.Is(err, errDamaged):
			v.found.Wrong = append(v.found.Wrong, err.Error())
			continue
		case err != nil:
			return err
		case v.next(ctx, name) == link{name, hash}:
			continue // stored, and not recorded yet
		}
		if v.first == "" || name < v.first {
			v.found.Unproved = append(v.found.Unproved, name)
			continue
		}
		v.found.Wrong = append(v.found.Wrong, fmt.Sprintf("%s is stored, and the journal does not name it: it was added or replaced", v.describe(name)))
	}
	return nil
}
