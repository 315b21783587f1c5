/* The families that are exchanged: what they are made with, what they keep. */
#include "base/status.h"
#include "exchange/foreign.h"
#include "models/zoo.h"

const char *gp_family_name(gp_family family) {
    switch (family) {
    case GP_FAMILY_GPT2:
        return "gpt2";
    case GP_FAMILY_BERT:
        return "bert";
    case GP_FAMILY_RESNET:
        break;
    }
    return "resnet";
}

static gp_status resolve_resnet(gp_resnet_options *options) {
    if (options->classes == 0) options->classes = 1000;
    if (options->classes < 1)
        return gp_error(GP_INVALID, "resnet: classes is %lld: 1 or more is accepted", (long long)options->classes);
    if (options->name && gp_naming_resnet(options->name).blocks > 0) return GP_OK;
    return gp_error(GP_INVALID, "there is no resnet of the name %s: resnet18, 34, 50, 101 and 152 are accepted",
                    options->name ? options->name : "(none)");
}

gp_status gp_family_resolve(gp_family_options *family) {
    switch (family->family) {
    case GP_FAMILY_GPT2:
        return gp_zoo_resolve_gpt2(&family->gpt2);
    case GP_FAMILY_BERT:
        return gp_zoo_resolve_bert(&family->bert);
    case GP_FAMILY_RESNET:
        return resolve_resnet(&family->resnet);
    }
    return gp_error(GP_INVALID, "there is no family number %d", (int)family->family);
}

gp_status gp_family_model(gp_model **model, const gp_family_options *family) {
    gp_option classes = gp_zoo_integer("classes", family->resnet.classes);
    *model = NULL;
    switch (family->family) {
    case GP_FAMILY_GPT2:
        return gp_model_create_gpt2(model, &family->gpt2);
    case GP_FAMILY_BERT:
        return gp_model_create_bert(model, &family->bert);
    case GP_FAMILY_RESNET:
        return gp_model_create_named(model, family->resnet.name, &classes, 1, NULL);
    }
    return gp_error(GP_INVALID, "there is no family number %d", (int)family->family);
}

gp_naming gp_family_naming(const gp_family_options *family) {
    switch (family->family) {
    case GP_FAMILY_GPT2:
        return gp_naming_gpt2(&family->gpt2);
    case GP_FAMILY_BERT:
        return gp_naming_bert(&family->bert);
    case GP_FAMILY_RESNET:
        break;
    }
    return gp_naming_resnet(family->resnet.name);
}

size_t gp_model_tensors(const gp_model *model) {
    return gp_model_parameters(model) + gp_model_states(model);
}

gp_parameter_info gp_model_tensor(const gp_model *model, size_t index) {
    size_t parameters = gp_model_parameters(model);
    if (index < parameters) return gp_model_parameter(model, index);
    gp_state_info state = gp_model_state(model, index - parameters);
    return (gp_parameter_info){.name = state.name, .shape = state.shape, .layer = state.layer, .init = state.init};
}
