package v1alpha1

// Annotations that name the users who wrote or deleted an object. Only the webhooks of broker and
// agent set them; an admission policy refuses changes by anyone else. The author of spec is known
// only if RequestedByGenerationAnnotation equals metadata.generation. If it does not, spec was
// changed while no webhook answered.
const (
	// RequestedByAnnotation is the name of the user who last wrote spec.
	RequestedByAnnotation = "broker.fluidos.eu/requested-by"
	// RequestedByGenerationAnnotation is the metadata.generation of the object after the write whose user
	// RequestedByAnnotation names.
	RequestedByGenerationAnnotation = "broker.fluidos.eu/requested-by-generation"
	// DeletedByAnnotation is the name of the user who deleted the object, which still waits for its
	// finalizers.
	DeletedByAnnotation = "broker.fluidos.eu/deleted-by"
	// DeletedByTimeAnnotation is when that user deleted the object, in the format of RFC 3339.
	DeletedByTimeAnnotation = "broker.fluidos.eu/deleted-by-time"
)
