#include "support.h"
#include <stdio.h>
#include "base/memory.h"
static void trains(void **state) {
    (void)state;
    gp_model *model = test_gpt(2, 0, false);
    for (size_t k = 1; k <= 3; k++) {
        gp_engine_options o = test_options(model, k, 4, 2);
        double loss; size_t count;
        for (int s = 1; s < 20; s += 6) {
        float *w = test_train(&o, 4, s, 1.0, &loss, &count);
        printf("K %zu step %d loss %.9f w %.9g\n", k, s, loss, (double)w[5]);
        gp_free(w);}
    }
    gp_model_destroy(model);
}
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(trains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
