package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// How long answers of the API server are cached. Refusals are cached for a shorter time than permissions, so that a new
// right takes effect soon.
const (
	tokenKept      = time.Minute
	badTokenKept   = 5 * time.Second
	rightKept      = 30 * time.Second
	reviewTimeout  = 10 * time.Second
	reviewsInCache = 4096
	// maxReviews limits how many tokens are reviewed at the same time: anyone who can connect to the console can send
	// tokens.
	maxReviews = 8
)

// errUnauthenticated means that the API server does not accept the token.
var errUnauthenticated = errors.New("the API server does not accept this token")

// reviewer finds out to whom a token belongs, and what that user may list.
type reviewer interface {
	// identify returns the user of a token, or errUnauthenticated.
	identify(ctx context.Context, token string) (*authenticationv1.UserInfo, error)
	// mayList reports whether the user may list a resource in a namespace, or in all namespaces if namespace is "".
	mayList(ctx context.Context, user *authenticationv1.UserInfo, group, resource, namespace string) (bool, error)
}

// apiReviewer is a reviewer that asks the API server and caches its answers.
type apiReviewer struct {
	clients kubernetes.Interface
	running chan struct{} // has a place for each token under review
	tokens  *utilcache.LRUExpireCache
	rights  *utilcache.LRUExpireCache
}

func newReviewer(config *rest.Config) (*apiReviewer, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &apiReviewer{clients: clients, running: make(chan struct{}, maxReviews), tokens: utilcache.NewLRUExpireCache(reviewsInCache), rights: utilcache.NewLRUExpireCache(reviewsInCache)}, nil
}

func (a *apiReviewer) identify(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	key := sha256.Sum256([]byte(token)) // so that the cache holds no tokens
	if known, ok := a.tokens.Get(key); ok {
		user, _ := known.(*authenticationv1.UserInfo)
		if user == nil {
			return nil, errUnauthenticated
		}
		return user, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case a.running <- struct{}{}:
		defer func() { <-a.running }()
	case <-ctx.Done():
		return nil, fmt.Errorf("too many users log in at this moment: %w", ctx.Err())
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := a.clients.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("the API server could not review the token: %w", err)
	}
	if !review.Status.Authenticated {
		a.tokens.Add(key, (*authenticationv1.UserInfo)(nil), badTokenKept)
		return nil, errUnauthenticated
	}
	a.tokens.Add(key, &review.Status.User, tokenKept)
	return &review.Status.User, nil
}

// rightKey is the key of an answer in the cache. user is a digest of the user's name, UID, groups and extra attributes.
type rightKey struct {
	user                       [sha256.Size]byte
	group, resource, namespace string
}

func (a *apiReviewer) mayList(ctx context.Context, user *authenticationv1.UserInfo, group, resource, namespace string) (bool, error) {
	key := rightKey{digestOf(user), group, resource, namespace}
	if known, ok := a.rights.Get(key); ok {
		allowed, _ := known.(bool)
		return allowed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extraOf(user),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Namespace: namespace, Verb: "list"},
	}}
	review, err := a.clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("the API server could not say whether you may list %s: %w", resource, err)
	}
	a.rights.Add(key, review.Status.Allowed, rightKept)
	return review.Status.Allowed, nil
}

func extraOf(user *authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return extra
}

func digestOf(user *authenticationv1.UserInfo) [sha256.Size]byte {
	raw, err := user.Marshal() // protobuf sorts the keys of maps
	if err != nil {
		panic(fmt.Sprintf("UserInfo of %q: %v", user.Username, err)) // it was just decoded
	}
	return sha256.Sum256(raw)
}
