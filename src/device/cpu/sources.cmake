# The CPU device's loops and the kernels made of them, for src/device/CMakeLists.txt. The loops are compiled once for each instruction set;
# which table runs is decided at run time (cpu/loops.c).
set(cpu_loop_sources
    cpu/cpu.c cpu/custom.c cpu/kernel.c cpu/kernel_create.c cpu/kernel_elementwise.c cpu/kernel_embedding.c
    cpu/kernel_batch_norm.c cpu/kernel_depthwise.c cpu/kernel_images.c cpu/kernel_pool.c cpu/kernel_loss.c cpu/kernel_norm.c cpu/kernel_reduce.c cpu/kernel_shape.c cpu/loops.c cpu/loops_portable.c)

# No -ffast-math: NaN must travel. Contraction to fused multiply-adds is the same for every element, so it harms no promise.
set(cpu_loop_options $<$<NOT:$<CONFIG:Debug>>:-O3> -fopenmp-simd -ffp-contract=fast)
if(GPIPE_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES "Clang")
  list(APPEND cpu_loop_options -Wno-pass-failed) # checks inside a loop keep it from being vectorised
endif()
set_source_files_properties(cpu/loops_portable.c PROPERTIES COMPILE_OPTIONS "${cpu_loop_options}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND cpu_loop_sources cpu/loops_avx2.c cpu/loops_avx512.c)
  set_source_files_properties(cpu/loops_avx2.c PROPERTIES COMPILE_OPTIONS
                              "${cpu_loop_options};-march=x86-64-v3")
  set_source_files_properties(cpu/loops_avx512.c PROPERTIES COMPILE_OPTIONS
                              "${cpu_loop_options};-march=x86-64-v4;-mprefer-vector-width=512")
endif()
